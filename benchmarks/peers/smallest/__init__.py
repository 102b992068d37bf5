"""The smallest working programs; `visitors` is what all of them share."""
