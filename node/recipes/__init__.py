"""Recipes: how to use the node, as Markdown with code that works as it stands. Shown as pages and as MCP resources."""
