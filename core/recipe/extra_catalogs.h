// Catalogues of component kinds that Registry::catalogs does not hold: their components are the
// same in every Registry of the process.
#pragma once

#include <vector>

namespace accel {

class CatalogIndex;

/// Adds a catalogue for Registry::all(); it lives as long as the process.
void add_extra_catalog(const CatalogIndex& catalog);

/// In the order in which they were added.
const std::vector<const CatalogIndex*>& extra_catalogs();

}  // namespace accel
