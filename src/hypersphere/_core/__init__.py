"""What several rooms share: argument checks, norms and angles, which weights are neurons, modes, labels, registries.

Nothing in here knows of anything above it, and nothing in here is part of the public interface.
"""
