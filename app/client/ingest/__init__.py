"""From files to requests, each step a module: `input_files`, `formats`, `people`, `batches`, `sending`."""
