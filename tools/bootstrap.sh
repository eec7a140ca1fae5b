#!/bin/sh
# Makes this machine ready to build accel-run: system packages, then libtorch.
#   tools/bootstrap.sh [lint|tidy|sanitize|interop|dist|cuda|cuda-kernels|arrow]...
# cuda adds what libtorch computes on NVIDIA's GPUs with (2.2 GB to fetch, 3.3 GB unpacked).
# cuda-kernels adds the compiler and headers of libaccel_cuda.so (300 MB to fetch, 250 MB unpacked).
# arrow adds what reads Parquet and Arrow files (55 MB to fetch, 65 MB unpacked).
# What is there already is left alone, so a second call does nothing.
# TORCH_DIR=<unpacked libtorch> is used as it is; PIP_FIND_LINKS=<folder of wheels> works offline.
set -eu

tools=$(cd "$(dirname "$0")" && pwd)
torch_version=2.11.0
torch_home=${XDG_CACHE_HOME:-$HOME/.cache}/accel-run
torch_dir=$torch_home/libtorch-$torch_version
nvcc_dir=$torch_home/cuda-kernels-13.0
arrow_dir=$torch_home/arrow-26.0.1
arrow_libraries='libarrow.so.2600 libparquet.so.2600'
torch_libraries='libtorch_cpu.so libc10.so libgomp.so.1 libcudart.so.13 libcupti.so.13'
cuda_libraries='libtorch_cuda.so libc10_cuda.so libtorch_cuda_linalg.so libtorch_nvshmem.so libcaffe2_nvrtc.so'

say() { echo "bootstrap: $*"; }

die() {
  echo "bootstrap: error: $*" >&2
  exit 1
}

# The first python3 that has pip: one from pyenv or conda may come without.
python_with_pip() {
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      echo "$python"
      return
    fi
  done
  return 1
}

present() {
  case $1 in
    pip) python_with_pip >/dev/null ;;
    venv) /usr/bin/python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    libclang-rt) ls /usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-x86_64.a >/dev/null 2>&1 ;;
    /*) [ -e "$1" ] ;;
    *.h | *.hpp) ls /usr/include/"$1" /usr/local/include/"$1" /usr/include/*-linux-gnu/"$1" 2>/dev/null | grep -q . ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

# Lines of "package why" for what the purposes in $1 need and this machine lacks.
missing_packages() {
  while read -r purpose package brings why; do
    case " $1 " in
      *" $purpose "*) present "$brings" || echo "$package $why" ;;
    esac
  done <"$tools/packages.txt"
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  else
    sudo "$@"
  fi
}

install_packages() {
  missing=$(missing_packages "$1")
  [ -n "$missing" ] || return 0
  packages=$(echo "$missing" | cut -d' ' -f1 | xargs)
  say "this machine lacks:"
  echo "$missing" | while read -r package why; do
    printf '  %-22s %s\n' "$package" "$why"
  done
  command -v apt-get >/dev/null ||
    die "no apt-get here (neither Debian nor Ubuntu): install what is listed above by hand"
  [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
    die "neither root nor sudo: ask an administrator for 'apt-get install $packages'"
  say "installing them with apt-get"
  export DEBIAN_FRONTEND=noninteractive
  as_root apt-get -qq update >"$log" 2>&1 ||
    die "apt-get update failed: $(tail -n 1 "$log")"
  # shellcheck disable=SC2086 # one word per package
  as_root apt-get -qq install -y --no-install-recommends $packages >"$log" 2>&1 ||
    die "apt-get cannot install them, is this machine offline? $(tail -n 1 "$log")"
  missing=$(missing_packages "$1")
  [ -z "$missing" ] || die "still missing after the installation: $missing"
}

# The wheels of the list $1, into the folder $2.
download_wheels() {
  "$(python_with_pip)" -m pip download --quiet --disable-pip-version-check --no-deps \
    --require-hashes -r "$1" --dest "$2" --only-binary=:all: \
    --python-version 3.11 --implementation cp --abi cp311 --abi none \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
    --platform manylinux_2_25_x86_64 --platform manylinux_2_18_x86_64 \
    --platform manylinux_2_17_x86_64 --platform manylinux_2_12_x86_64 \
    --platform manylinux_2_5_x86_64 --platform manylinux2014_x86_64 >"$log" 2>&1 ||
    die "the wheels of $1 do not come: $(grep '^ERROR' "$log" | tail -n 1)
  offline? put them in a folder and set PIP_FIND_LINKS=<folder>; for libtorch, TORCH_DIR=<unpacked libtorch> does too"
}

# One flat folder of the headers, the five libraries that a run on the CPU loads, and their licenses.
unpack_wheels() {
  say "unpacking it into $torch_dir"
  mkdir -p "$2/lib"
  unzip -q "$1/torch-*.whl" 'torch/include/*' -d "$2"
  mv "$2/torch/include" "$2/include"
  rmdir "$2/torch"
  for wheel in "$1"/*.whl; do
    for library in $torch_libraries; do
      # Most libraries are in one wheel only: not finding one here is no failure.
      unzip -q -j -o "$wheel" "*/lib/$library" -d "$2/lib" 2>/dev/null || true
    done
    name=$(basename "$wheel" | cut -d- -f1)
    mkdir -p "$2/licenses/$name"
    unzip -q -j -o "$wheel" '*.dist-info/licenses/*' -d "$2/licenses/$name" 2>/dev/null || true
  done
  for library in $torch_libraries; do
    [ -s "$2/lib/$library" ] || die "the wheels of tools/libtorch.txt hold no $library"
  done
}

# The copy of the pins is written last, so a folder with it is whole and of these wheels.
libtorch_is_ready() { cmp -s "$tools/libtorch.txt" "$torch_dir/pins.txt"; }

install_libtorch() {
  mkdir -p "$torch_home" || die "cannot write to $torch_home: set XDG_CACHE_HOME to a folder that can be written"
  exec 9>"$torch_home/lock"
  flock 9 # a second build of this user waits here, then finds the work done
  libtorch_is_ready && return
  rm -rf "$torch_home"/unpacking.*
  wheels=$torch_home/wheels
  mkdir -p "$wheels"
  say "fetching libtorch $torch_version (545 MB)"
  download_wheels "$tools/libtorch.txt" "$wheels"
  fresh=$(mktemp -d "$torch_home/unpacking.XXXXXX")
  unpack_wheels "$wheels" "$fresh"
  cp "$tools/libtorch.txt" "$fresh/pins.txt"
  chmod 755 "$fresh"
  rm -rf "$torch_dir"
  mv "$fresh" "$torch_dir"
  rm -rf "$wheels"
}

cuda_is_ready() { cmp -s "$tools/libtorch_cuda.txt" "$torch_dir/cuda_pins.txt"; }

# Beside the libraries for the CPU; its pins, too, are written last.
install_cuda() {
  exec 9>"$torch_home/lock"
  flock 9
  cuda_is_ready && return
  wheels=$torch_home/wheels
  mkdir -p "$wheels"
  say "fetching what libtorch needs of CUDA (2.2 GB)"
  download_wheels "$tools/libtorch.txt" "$wheels"
  download_wheels "$tools/libtorch_cuda.txt" "$wheels"
  say "unpacking it into $torch_dir"
  for library in $cuda_libraries; do
    unzip -q -j -o "$wheels/torch-*.whl" "torch/lib/$library" -d "$torch_dir/lib"
  done
  rm "$wheels"/torch-*.whl
  for wheel in "$wheels"/*.whl; do
    unzip -q -j -n "$wheel" '*/lib/*.so*' -d "$torch_dir/lib"
    # Headers that PyTorch's own include; most wheels have others or none, which is no failure.
    unzip -q -j -n "$wheel" 'nvidia/cu13/include/cu*.h' -d "$torch_dir/cuda_include" 2>/dev/null || true
  done
  cp "$tools/libtorch_cuda.txt" "$torch_dir/cuda_pins.txt"
  rm -rf "$wheels"
}

nvcc_is_ready() { cmp -s "$tools/cuda_kernels.txt" "$nvcc_dir/pins.txt"; }

# A folder as a CUDA toolkit has it: bin/nvcc, nvvm/, include/ (with nccl.h) and lib/.
install_nvcc() {
  mkdir -p "$torch_home" || die "cannot write to $torch_home: set XDG_CACHE_HOME to a folder that can be written"
  exec 9>"$torch_home/lock"
  flock 9
  nvcc_is_ready && return
  wheels=$torch_home/wheels
  mkdir -p "$wheels"
  say "fetching the CUDA compiler and headers (300 MB)"
  download_wheels "$tools/cuda_kernels.txt" "$wheels"
  say "unpacking them into $nvcc_dir"
  fresh=$(mktemp -d "$torch_home/unpacking.XXXXXX")
  for wheel in "$wheels"/*.whl; do
    case $wheel in
      */nvidia_nccl*) unzip -q "$wheel" 'nvidia/nccl/include/*' -d "$fresh" ;;
      *) unzip -q -o "$wheel" 'nvidia/cu13/*' -d "$fresh" ;;
    esac
    name=$(basename "$wheel" | cut -d- -f1)
    mkdir -p "$fresh/nvidia/cu13/licenses/$name"
    unzip -q -j -o "$wheel" '*.dist-info/licenses/*' -d "$fresh/nvidia/cu13/licenses/$name"
  done
  cp -r "$fresh/nvidia/nccl/include/." "$fresh/nvidia/cu13/include"
  # zip files of some wheels lose the permission to execute
  chmod -R a+x "$fresh/nvidia/cu13/bin" "$fresh/nvidia/cu13/nvvm/bin"
  cp "$tools/cuda_kernels.txt" "$fresh/nvidia/cu13/pins.txt"
  rm -rf "$nvcc_dir"
  mv "$fresh/nvidia/cu13" "$nvcc_dir"
  rm -rf "$wheels" "$fresh"
}

arrow_is_ready() { cmp -s "$tools/arrow.txt" "$arrow_dir/pins.txt"; }

install_arrow() {
  mkdir -p "$torch_home" || die "cannot write to $torch_home: set XDG_CACHE_HOME to a folder that can be written"
  exec 9>"$torch_home/lock"
  flock 9
  arrow_is_ready && return
  wheels=$torch_home/wheels
  mkdir -p "$wheels"
  say "fetching Arrow (55 MB)"
  download_wheels "$tools/arrow.txt" "$wheels"
  say "unpacking it into $arrow_dir"
  fresh=$(mktemp -d "$torch_home/unpacking.XXXXXX")
  mkdir "$fresh/lib"
  unzip -q "$wheels/pyarrow-*.whl" 'pyarrow/include/*' -d "$fresh"
  mv "$fresh/pyarrow/include" "$fresh/include"
  rmdir "$fresh/pyarrow"
  for library in $arrow_libraries; do
    unzip -q -j "$wheels/pyarrow-*.whl" "pyarrow/$library" -d "$fresh/lib"
  done
  cp "$tools/arrow.txt" "$fresh/pins.txt"
  chmod 755 "$fresh"
  rm -rf "$arrow_dir"
  mv "$fresh" "$arrow_dir"
  rm -rf "$wheels"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [ -n "${TORCH_DIR:-}" ]; then
  [ -e "$TORCH_DIR/lib/libtorch_cpu.so" ] || die "TORCH_DIR=$TORCH_DIR has no lib/libtorch_cpu.so"
  install_packages "build $*"
elif libtorch_is_ready; then
  install_packages "build $*"
else
  [ "$(uname -sm)" = 'Linux x86_64' ] ||
    die "the pinned libtorch is for x86_64 Linux, this is $(uname -sm): set TORCH_DIR=<unpacked libtorch>"
  install_packages "build libtorch $*"
  install_libtorch
fi
case " $* " in
  *' cuda '*)
    [ -z "${TORCH_DIR:-}" ] || die "TORCH_DIR=$TORCH_DIR is used as it is: add libtorch_cuda.so to it"
    install_packages libtorch
    cuda_is_ready || install_cuda
    ;;
esac
case " $* " in
  *' cuda-kernels '*)
    [ "$(uname -sm)" = 'Linux x86_64' ] ||
      die "the pinned CUDA compiler is for x86_64 Linux, this is $(uname -sm): set CUDA_HOME=<CUDA toolkit>"
    install_packages libtorch
    nvcc_is_ready || install_nvcc
    ;;
esac
case " $* " in
  *' arrow '*)
    install_packages libtorch
    arrow_is_ready || install_arrow
    ;;
esac
