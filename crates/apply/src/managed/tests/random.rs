//! Random stories: what must hold whatever managers do.
