// Nothing: see context.h.
#pragma once
