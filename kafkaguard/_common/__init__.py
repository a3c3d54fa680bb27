"""What every room uses: checks of arguments and words."""
