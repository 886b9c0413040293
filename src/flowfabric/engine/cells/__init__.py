"""One engine over the cells of a deployment, where a namespace is a cell of its own."""
