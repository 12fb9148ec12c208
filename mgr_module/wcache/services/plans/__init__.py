"""Plans: what plans each knob, what must hold, how one is carried out, tried or taken back."""
