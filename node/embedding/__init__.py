"""Embedding: texts in, unit vectors out. What runs is ONNX Runtime; sentence-transformers loads and exports models."""
