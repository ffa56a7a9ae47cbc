"""What gpuops.dask is made of: lazy arrays, and the partial results of their chunks."""
