// Nothing: see gloo/context.h.
#pragma once
