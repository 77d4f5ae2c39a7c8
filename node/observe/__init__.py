"""What watches a node: logs, metrics, traces, health, the memory alarm."""
