"""An engine on a server, called over HTTP."""
