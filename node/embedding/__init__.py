"""Embedding: texts in, unit vectors out. What runs is ONNX Runtime; sentence-transformers loads and exports models."""

import os

# From version 1.29 on, ONNX Runtime reports to Microsoft about the machine and the models that it runs, and keeps what
# it could not send in a database below the home directory. It decides that once, when it is loaded, whoever loads it.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
