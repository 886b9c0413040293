"""The store on Valkey."""
