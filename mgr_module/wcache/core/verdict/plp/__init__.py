"""Power-loss protection: what drives hint at, and what an admin vouches for."""
