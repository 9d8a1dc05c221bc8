// Parts that the sources of the public interface share. Nothing outside src/api includes this.
#ifndef ES_API_INTERNAL_H
#define ES_API_INTERNAL_H

#include "data/dataset.h"
#include "esper/data.h"

// The data set of a public one, which owns it.
const EsDataset *es_data_dataset(const EsData *data);

#endif
