"""The pages that people see: handlers, templates, static files."""
