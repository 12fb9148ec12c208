"""The drive lab: a QEMU guest with modelled drives whose write caches really toggle."""
