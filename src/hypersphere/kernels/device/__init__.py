"""What runs on the device: kernels in Triton's language. Imported late and only where Triton is."""
