# Run by cpack when everything is staged: a package without the web page would be found out by whoever installed it.
if(NOT EXISTS "${CPACK_TEMPORARY_DIRECTORY}/usr/share/lockstep/web/index.html")
  message(FATAL_ERROR "The web page is not built. Build it, and pack again: (cd ui-api/web && npm ci && npm run build)")
endif()
