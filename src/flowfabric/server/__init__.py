"""The HTTP API of an engine; checks, OpenAPI document and tests derive from the route table."""
