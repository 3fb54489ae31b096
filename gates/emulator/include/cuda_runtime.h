// CUDA for g++: see docs/internals/emulator.md.
#pragma once
#pragma GCC system_header
#ifndef GATES_EMULATOR
#error "compile through gates.emulator (python -m gates.emulator.translate), which rewrites launches and shared memory"
#endif
#include "gates_emulator/host_api.h"
#include "gates_emulator/device_functions.h"
