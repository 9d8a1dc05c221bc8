// Esper: neural networks that grow while they train, many at once. This header brings the whole
// public interface.
#ifndef ESPER_ESPER_H
#define ESPER_ESPER_H

#include "esper/config.h"
#include "esper/data.h"
#include "esper/drill.h"
#include "esper/fit.h"
#include "esper/grow.h"
#include "esper/log.h"
#include "esper/network.h"
#include "esper/prove.h"
#include "esper/signal.h"
#include "esper/status.h"
#include "esper/version.h"

#endif
