"""Looking at a trained model: numbers over the patch grid, and pictures."""
