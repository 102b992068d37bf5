// Written by tools/client_types.py from the OpenAPI description: do not edit.
export {};
