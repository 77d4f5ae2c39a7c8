"""Embedding: texts in, unit vectors out. Models run in ONNX Runtime; sentence-transformers loads and exports them."""

import os

# From version 1.29 on, ONNX Runtime sends telemetry about the machine and the models to Microsoft, and stores what it
# cannot send in a database below the home directory. It reads this variable once, when it is loaded, whoever loads it.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
