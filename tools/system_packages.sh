#!/usr/bin/env bash
# Checks for the two things that pip cannot bring: a C++20 compiler and GoogleTest. Installs GoogleTest where
# apt-get and the rights are there; otherwise says what to install.
set -euo pipefail

compiler=${CXX:-c++}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

compiles() {  # compiles <source text>
  printf '%s\n' "$1" >"$scratch/probe.cc"
  "$compiler" -std=c++20 -fsyntax-only "$scratch/probe.cc" 2>/dev/null
}

if ! compiles '#include <concepts>
#include <span>
int main() {}'; then
  echo "$compiler cannot compile C++20: install g++ 12 or newer, or name another compiler in CXX" >&2
  exit 1
fi

if ! compiles '#include <gtest/gtest.h>'; then
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    apt-get install -y -q libgtest-dev || { apt-get update -q && apt-get install -y -q libgtest-dev; }
  else
    echo "GoogleTest is missing: install libgtest-dev (Debian, Ubuntu), gtest-devel (Fedora) or gtest (Arch)," >&2
    echo "or build without tests: make build CMAKE_FLAGS=-DDENDRITE_BUILD_TESTS=OFF" >&2
    exit 1
  fi
fi
