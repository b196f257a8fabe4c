"""Device code: kernels in Triton's language. Imported only when a kernel runs, and only if Triton is installed."""
