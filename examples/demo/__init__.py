"""The demo behind `make demo`: three real models, trained on CPU and on neuron in every mode, side by side."""
