"""How vectors are written: as 32-bit numbers for computing, mostly as 16-bit ones for storing.

16-bit numbers take half the memory, and a search among ten thousand of them two thirds of the time; what is found stays
the same. Web processes never look into a vector, so only workers need numpy.
"""

import numpy as np

from node.search.index_versions import Scalar


def converted(vector: bytes, given: Scalar, wanted: Scalar) -> bytes:
    """The vector with its numbers converted from `given` to `wanted`."""
    return vector if given == wanted else np.frombuffer(vector, given).astype(wanted).tobytes()
