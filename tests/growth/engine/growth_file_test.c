// An episode that is saved, loaded into another growth and gone on with: the same bits. Files that
// do not fit, or whose numbers make no sense, are refused and change nothing.
#include "base/file.h"
#include "growth/engine/growth_internal.h"
#include "growth/growth_case.h"
#include "tensor/safetensors.h"
