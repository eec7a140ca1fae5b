#!/bin/sh
# Prints the error about a known dataset that is not downloaded, as docs/downloads.md shows it.
printf '%s\n' 'model: {type: resnet, depth: 18, stem: cifar}' \
  'data: {train: {type: cifar10}, eval: {type: cifar10}}' >cifar.yaml
XDG_CACHE_HOME=/cache accel-run validate cifar.yaml
