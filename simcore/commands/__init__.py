"""Groups of commands that the command line registers."""
