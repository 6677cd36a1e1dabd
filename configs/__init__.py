"""The configs that come with the package, a file a runnable thing; each says what it shows and costs."""
