"""The ways to treat pixels that have a name: for the settings, which know no torch, and for what does it."""

PADDINGS = ("constant", "reflect", "symmetric")
"""What may lie outside an image that is padded and cropped."""

MEASURED = ("standard", "mean")
"""The normalisations that need the mean of the training images."""

NORMALIZATIONS = ("symmetric", "unit", *MEASURED)
"""How bytes become the inputs of a network."""
