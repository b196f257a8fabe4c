"""Open sets: train on some classes, verify pairs of others. No published numbers; losses under one budget."""
