"""The endpoints of the service, one file per area; `app.ROUTES` lists them with their paths."""
