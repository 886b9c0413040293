"""Wire formats of handles, tokens and cursors."""
