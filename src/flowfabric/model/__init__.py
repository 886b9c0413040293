"""The nouns: frozen structs, no behaviour beyond reading themselves."""
