"""Generative adversarial training (thesis D.7): the network of a run is the discriminator, a generator its opponent."""
