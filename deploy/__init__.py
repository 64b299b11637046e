"""What an installation is made of: the chart, what is rendered from it, and the images."""
