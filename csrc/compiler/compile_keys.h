// csrc/compiler/compile_keys.h - the two keys of a compiled snippet.
//
//   snippet key: what the tape computes, what must come out, and the lowering  -> snippet
//   description
//                                                                              and StableHLO digest
//   NEFF key:    the StableHLO, and all that decides the machine code          -> executable
//
// The first lets a warm process skip lowering; the second survives rebuilds that leave the text
// alone. No ingredient is bumped by hand. Pure functions but for those that look at the host; any
// thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "csrc/base/status.h"
#include "csrc/cache/key.h"
#include "csrc/lowering/snippet.h"
#include "csrc/tape/record.h"

namespace dendrite::compiler {

// Storages that the tape writes and that live on: the snippet's outputs. Liveness of others changes
// nothing, so it must not reach a key.
std::vector<bool> OutputMask(const tape::Tape& tape, const std::vector<bool>& live);

// Identity of a job within a process but for its outputs: canonical tape, traits, visibility.
std::string JobKey(const tape::Tape& tape, const lowering::SnippetOptions& options);

// REQUIRES: job_key is JobKey's; mask is OutputMask's.
cache::Key MakeSnippetKey(const std::string& job_key, const std::vector<bool>& mask,
                          const std::string& target_name);

// What decides the machine code besides the program.
struct CompilerIdentity {
  std::string target_name;
  std::string plugin_digest;
  std::string plugin_api;  // "0.106": how compiled code calls kernels by name
  std::string compile_options;
  std::string cpu_features;
  int num_threads = 1;
};
// Of the program, not of where it was written: equal snippets from different source lines are one
// NEFF, so locations (which errors and profiles carry) are left out.
std::string ProgramDigest(std::string_view stablehlo);
cache::Key MakeNeffKey(const std::string& stablehlo_digest, const CompilerIdentity& identity);

// SHA-256 over the sources that decide what a tape is lowered to, hex; made by the build.
std::string LoweringDigest();
// The instruction sets of this host's CPU, as the kernel names them.
std::string CpuFeatures();
// Cores that this process may use.
int NumUsableCores();

// This process's arguments as the system keeps them; empty if it does not.
std::vector<std::string> ProcessCommandLine();
// What tells one program from another in a command line: the script or, after -m, the module, so
// that a run with other arguments is the same program; else the whole line.
std::string ProgramName(const std::vector<std::string>& arguments);

}  // namespace dendrite::compiler
