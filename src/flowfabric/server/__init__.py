"""One HTTP API over an engine: routes declared as data, from which the checks, the OpenAPI document and the tests are made."""
