// Hands the live store and the open dialogs' helpers to the components.
import { createContext, useContext, useSyncExternalStore, type ReactNode } from 'react';
import type { LiveStore, View } from './live';

const StoreContext = createContext<LiveStore | null>(null);

export function StoreProvider({ store, children }: { store: LiveStore; children: ReactNode }) {
  return <StoreContext.Provider value={store}>{children}</StoreContext.Provider>;
}

export function useStore(): LiveStore {
  const store = useContext(StoreContext);
  if (!store) throw new Error('useStore outside of StoreProvider');
  return store;
}

export function useView(): View {
  const store = useStore();
  return useSyncExternalStore(store.subscribe, store.getView);
}
