"""What the documents do not print: unseen classes of sets that can be had, and GANs without an Inception network."""
