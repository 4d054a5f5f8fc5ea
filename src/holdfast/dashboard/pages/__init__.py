"""What each page asks and does: one module per page, a list of routes in each."""
