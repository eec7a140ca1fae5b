# DeepSpeed's converter, of which the name alone matters.
