"""What the age bins predict of other targets, beside what is measured there."""
