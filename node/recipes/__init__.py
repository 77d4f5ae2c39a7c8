"""Recipes: how to use the node, as Markdown whose code works as it stands, for pages and MCP resources."""
