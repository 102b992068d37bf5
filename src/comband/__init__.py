"""comband: the best of many list recommenders, found with few interactions and a proof."""
